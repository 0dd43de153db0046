"""Tests of training share their cores: torch computes with one thread in each process."""

import torch

torch.set_num_threads(1)
