"""URI templates: expansion by RFC 6570, matching on the safe side and in linear time."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.protocol.errors import LocalError
from dovetail.uri_template.template import TemplateError, UriTemplate

VALUES = {
    "count": ["one", "two", "three"], "dom": ["example", "com"], "dub": "me/too", "hello": "Hello World!",
    "half": "50%", "var": "value", "who": "fred", "base": "http://example.com/home/", "path": "/foo/bar",
    "list": ["red", "green", "blue"], "keys": {"semi": ";", "dot": ".", "comma": ","}, "v": "6", "x": "1024",
    "y": "768", "empty": "", "empty_keys": {}, "undef": None,
}  # fmt: skip

# RFC 6570, section 3.2, every operator.
EXAMPLES = """
{count}|one,two,three
{count*}|one,two,three
{/count}|/one,two,three
{/count*}|/one/two/three
{;count}|;count=one,two,three
{;count*}|;count=one;count=two;count=three
{?count}|?count=one,two,three
{?count*}|?count=one&count=two&count=three
{&count*}|&count=one&count=two&count=three
{var}|value
{hello}|Hello%20World%21
{half}|50%25
O{empty}X|OX
O{undef}X|OX
{x,y}|1024,768
{x,hello,y}|1024,Hello%20World%21,768
?{x,empty}|?1024,
?{x,undef}|?1024
?{undef,y}|?768
{var:3}|val
{var:30}|value
{list}|red,green,blue
{list*}|red,green,blue
{keys}|semi,%3B,dot,.,comma,%2C
{keys*}|semi=%3B,dot=.,comma=%2C
{+var}|value
{+hello}|Hello%20World!
{+half}|50%25
{base}index|http%3A%2F%2Fexample.com%2Fhome%2Findex
{+base}index|http://example.com/home/index
O{+empty}X|OX
{+path}/here|/foo/bar/here
here?ref={+path}|here?ref=/foo/bar
up{+path}{var}/here|up/foo/barvalue/here
{+x,hello,y}|1024,Hello%20World!,768
{+path,x}/here|/foo/bar,1024/here
{+path:6}/here|/foo/b/here
{+list*}|red,green,blue
{+keys}|semi,;,dot,.,comma,,
{+keys*}|semi=;,dot=.,comma=,
{#var}|#value
{#hello}|#Hello%20World!
{#half}|#50%25
foo{#empty}|foo#
foo{#undef}|foo
{#path,x}/here|#/foo/bar,1024/here
{#keys*}|#semi=;,dot=.,comma=,
{.who}|.fred
{.who,who2}|.fred
{.half,x}|.50%25.1024
www{.dom*}|www.example.com
X{.empty}|X.
X{.list*}|X.red.green.blue
X{.keys*}|X.semi=%3B.dot=..comma=%2C
X{.empty_keys}|X
X{.empty_keys*}|X
{/who}|/fred
{/half,x}|/50%25/1024
{/who,dub}|/fred/me%2Ftoo
{/var,empty}|/value/
{/var,undef}|/value
{/var,x}/here|/value/1024/here
{/var:1,x}|/v/1024
{/list*,path:4}|/red/green/blue/%2Ffoo
{/keys*}|/semi=%3B/dot=./comma=%2C
{;who}|;who=fred
{;half}|;half=50%25
{;empty}|;empty
{;v,empty,who}|;v=6;empty;who=fred
{;x,y,undef}|;x=1024;y=768
{;hello:5}|;hello=Hello
{;keys*}|;semi=%3B;dot=.;comma=%2C
{?who}|?who=fred
{?x,y,empty}|?x=1024&y=768&empty=
{?x,y,undef}|?x=1024&y=768
{?var:3}|?var=val
{?keys}|?keys=semi,%3B,dot,.,comma,%2C
{?keys*}|?semi=%3B&dot=.&comma=%2C
{&who}|&who=fred
?fixed=yes{&x}|?fixed=yes&x=1024
{&var:3}|&var=val
""".split("\n")[1:-1]


@pytest.mark.parametrize("line", EXAMPLES)
def test_expansion_is_that_of_the_rfc(line):
    template, _, expected = line.partition("|")
    assert UriTemplate(template).expand(VALUES) == expected


def test_other_values_are_written_plainly():
    assert UriTemplate("{a}/{b}/{c}").expand({"a": 3, "b": True, "c": 1.5}) == "3/true/1.5"


def test_reserved_expansion_keeps_percent_encoding():
    assert UriTemplate("{+a}").expand({"a": "a%20b%zz"}) == "a%20b%25zz"


@pytest.mark.parametrize(
    ("template", "uri", "expected"),
    [
        ("config://app", "config://app", {}),
        ("config://app", "config://app2", None),
        ("users://{id}", "users://42", {"id": "42"}),
        ("users://{id}", "users://", None),
        ("users://{id}", "users://4/2", None),
        ("users://{id}", "users://4?x=1", None),
        ("users://{id}", "users://4#x", None),
        ("users://{id}", "users://a%20b%C3%BC", {"id": "a bü"}),
        ("users://{id}/posts/{post}", "users://1/posts/2", {"id": "1", "post": "2"}),
        ("repo://{owner}/{name}/{path*}", "repo://o/n/a/b.py", {"owner": "o", "name": "n", "path": "a/b.py"}),
        ("repo://{owner}/{name}/{path*}", "repo://o/n/", None),
        ("file:///{+path}", "file:///etc/hosts", {"path": "etc/hosts"}),
        ("file://{+path}", "file:///etc/hosts", {"path": "/etc/hosts"}),
        ("x:/base{/path*}", "x:/base/a/b", {"path": "a/b"}),
        ("x:/base{/path*}", "x:/base", {}),
        ("x:/base{/one}", "x:/base/a/b", None),
        ("x:/base{/one,two}", "x:/base/a/b", {"one": "a", "two": "b"}),
        ("x:/base{/one,two}", "x:/base/a", {"one": "a"}),
        ("x:{name}.{ext}", "x:a.tar.gz", {"name": "a.tar", "ext": "gz"}),
        ("x:{a}{b}", "x:123", {"a": "12", "b": "3"}),
        ("x:{a,b}", "x:1,2", {"a": "1", "b": "2"}),
        ("x:{a,b}", "x:1", None),
        ("{+a}-{b}", "x-y/z-w", {"a": "x-y/z", "b": "w"}),
        ("x:s{?q,lang}", "x:s?lang=en&q=a+b%26", {"q": "a b&", "lang": "en"}),
        ("x:s{?q,lang}", "x:s", {}),
        ("x:s{?q}", "x:s?other=1", None),
        ("x:s{?q}", "x:s?q=1&q=2", None),
        ("x:s{?tag*}", "x:s?tag=1&tag=2", {"tag": ["1", "2"]}),
        ("x:s?v=1{&q}", "x:s?v=1&q=2", {"q": "2"}),
        ("x:s{;a,b}", "x:s;b=2;a=1", {"a": "1", "b": "2"}),
        ("x:s{#part}", "x:s#a/b?c", {"part": "a/b?c"}),
        ("x:s{.ext}", "x:s.json", {"ext": "json"}),
        ("x:{a:2}/{a}", "x:ab/abc", {"a": "abc"}),
        ("x:{a:2}/{a}", "x:ab/xbc", None),
        ("x:{a:2}", "x:abc", None),
        ("x:{a}/{a}", "x:1/1", {"a": "1"}),
        ("x:{a}/{a}", "x:1/2", None),
        ("x:{a}/{a}", "x:1/12", None),
        ("x:{a}/{a:1}", "x:12/1", {"a": "12"}),
        ("x:{a:1}/{a}/{a}", "x:1/12/12", {"a": "12"}),
        ("x:{a:1}/{a}/{a}", "x:1/12/123", None),
        ("x:%20{a}", "x:%20b", {"a": "b"}),
    ],
)
def test_uris_are_matched(template, uri, expected):
    assert UriTemplate(template).match(uri) == expected


@pytest.mark.parametrize("template", ["repo://{name}/end", "repo://{name}", "x{name}.{ext}"])
@pytest.mark.parametrize(
    "evil",
    [
        "..",
        ".",
        "%2e%2e",
        "%2E.",
        ".%2e",
        "a%2Fb",
        "..%2F..",
        "a%5Cb",
        "..%5c..",
        "%00",
        "a/b",
        "%zz",
        "%ff",
        "%",
    ],
)
def test_a_plain_variable_stays_in_its_segment(template, evil):
    uri = template.replace("{name}", evil).replace("{ext}", "txt")
    assert UriTemplate(template).match(uri) is None


@pytest.mark.parametrize("template", ["repo://r/{path*}", "repo://r/{+path}", "repo://r{/path*}"])
@pytest.mark.parametrize(
    "evil",
    [
        "..", "../x", "a/../../x", "a/..", "a/./b", "%2e%2e/x", "a/%2E%2E/x", "..%2Fx", "a%2F..%2Fx",
        "..%5Cx", "a\\..\\x", "/etc/passwd", "%2Fetc/passwd", "%5C%5Chost", "a%00b", "%c0%ae%c0%ae/x",
    ],
)  # fmt: skip
def test_matched_paths_never_contain_dot_segments(template, evil):
    uri = template.replace("{path*}", evil).replace("{+path}", evil).replace("{/path*}", "/" + evil)
    assert UriTemplate(template).match(uri) is None


@pytest.mark.parametrize("name", ["...", "..a", "a..", ".hidden", "a.b"])
def test_dots_in_names_are_harmless(name):
    assert UriTemplate("x:/{a}").match(f"x:/{name}") == {"a": name}
    assert UriTemplate("x:/{a*}").match(f"x:/d/{name}") == {"a": f"d/{name}"}


def test_decoding_happens_once():
    assert UriTemplate("x:/{a}").match("x:/%252e%252e") == {"a": "%2e%2e"}


SEGMENT = (
    st.text(min_size=1)
    .filter(lambda s: not set(s) & set("/\\\0") and s not in (".", ".."))
    .filter(lambda s: s.encode(errors="replace").decode() == s)
)


@given(SEGMENT, SEGMENT, st.lists(SEGMENT, min_size=1, max_size=4))
def test_an_expanded_uri_matches_its_template(owner, name, path):
    template = UriTemplate("repo://{owner}/{name}/{path*}{?q}")
    values = {"owner": owner, "name": name, "path": "/".join(path)}
    assert template.match(template.expand(values)) == values


@given(st.text(max_size=60))
def test_any_uri_is_matched_or_not(uri):
    for template in ("{a}{b}", "x{/a*}{?b,c*}", "{+a}-{b}"):
        found = UriTemplate(template).match(uri)
        assert found is None or isinstance(found, dict)


def fastest(function, *args):
    best = float("inf")
    for _ in range(5):
        start = time.process_time()
        function(*args)
        best = min(best, time.process_time() - start)
    return best


@pytest.mark.parametrize(
    ("template", "unit"),
    [
        ("x:{a}-{b}-{c}-{d}-{e}-{f}", "-"),
        ("x:{a}{b}{c}{d}{e}{f}!", "a"),
        ("x:{+a}/{+b}/{+c}/{+d}/end", "/a"),
        ("x:{a*}{b*}{c*},{d*}!", "a,"),
        ("x:{a}/{b}/{c}!", "a"),
    ],
)
def test_time_grows_with_the_length_only(template, unit):
    match = UriTemplate(template).match
    short, long = (f"x:{unit * (size // len(unit))}#" for size in (1000, 8000))
    # Eight times the length: a backtracking matcher takes at least 8**5 times as long here.
    assert fastest(match, long) < 60 * max(fastest(match, short), 1e-4)


def test_an_overlong_uri_does_not_match():
    assert UriTemplate("x:{a}").match("x:" + "a" * 10_000) is None


def test_variables_come_in_order_and_once():
    assert UriTemplate("{b}{?a,c}{b:2}").variables == ("b", "a", "c")


def test_a_bad_template_is_our_error_and_a_value_error():
    with pytest.raises(TemplateError, match=r"'x\{' is not valid: a brace is not closed") as caught:
        UriTemplate("x{")
    assert isinstance(caught.value, LocalError)
    assert isinstance(caught.value, ValueError)
