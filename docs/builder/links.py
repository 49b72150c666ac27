"""Checks a site that was built: every link leads to a page and a place that exist, and nothing is loaded from outside.

python docs/builder/links.py build/docs/html
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADS = {("img", "src"), ("script", "src"), ("link", "href"), ("iframe", "src"), ("source", "src"), ("object", "data")}
FINE = ("https", "http", "mailto")  # of links that a reader may follow


class Page(HTMLParser):
    """What a page links to and loads, and the places on it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element says."""
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.places.add(value)
            if (tag, name) in LOADS and value:
                self.loads.append(value)
            elif tag == "a" and name == "href" and value:
                self.links.append(value)


def problems(folder: Path) -> list[str]:
    """What is wrong with the links of all pages of a folder, one line each."""
    pages = {file.resolve(): Page(file.read_text()) for file in sorted(folder.rglob("*.html"))}
    found = []
    for file, page in pages.items():
        name = file.relative_to(folder.resolve())
        for link in page.loads:
            if urlsplit(link).scheme not in ("", "data") or urlsplit(link).netloc:
                found.append(f"{name} loads {link} from outside")
        for link in (*page.links, *page.loads):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if parts.scheme not in (*FINE, "data"):
                    found.append(f"{name} links to {link}, which is neither a page here nor an address of the web")
                continue
            there = file if not parts.path else (file.parent / unquote(parts.path)).resolve()
            if not there.is_file():
                found.append(f"{name} links to {link}, which does not exist")
            elif parts.fragment and there in pages and unquote(parts.fragment) not in pages[there].places:
                found.append(f"{name} links to {link}, a page without that place")
    return found


if __name__ == "__main__":
    wrong = problems(Path(sys.argv[1]))
    sys.stdout.write("".join(f"{line}\n" for line in wrong))
    sys.stdout.write(f"{len(list(Path(sys.argv[1]).rglob('*.html')))} pages, {len(wrong)} wrong links\n")
    sys.exit(bool(wrong))
