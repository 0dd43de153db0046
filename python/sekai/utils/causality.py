"""stub"""


def check_causal(): ...
