from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from sekai.evaluation.report.elements import Markup, element, joined

# HTML reads a carriage return as a line feed, and leaves out a NUL.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"))


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def read(markup: str) -> Reader:
    reader = Reader()
    reader.feed(markup)
    reader.close()
    return reader


@given(text=TEXT, title=TEXT)
def test_any_text_is_read_as_it_was_meant_and_makes_no_element(text: str, title: str) -> None:
    found = read(element("p", text, title=title))

    assert found.text == text
    assert found.tags == [("p", {"title": title})]


def test_markup_is_not_escaped_twice() -> None:
    inside = element("b", "a & b")
    assert element("p", inside, " < ") == "<p><b>a &amp; b</b> &lt; </p>"


def test_attributes_are_written_as_html_names_them() -> None:
    made = element("td", class_="x", data_value="1", hidden=True, title=None, inert=False)
    assert made == '<td class="x" data-value="1" hidden></td>'


def test_what_is_none_is_left_out() -> None:
    assert joined("a", None, Markup("<br>")) == "a<br>"
    assert element("br") == "<br>"
