"""Excerpts of stderr: the user's own frames and the error, whatever else a program wrote."""

from dovetail.text.stderr_excerpt import MAX_LINES, stderr_excerpt

OWN = "/opt/dovetail/"


def excerpt(text: str) -> str:
    return "\n".join(stderr_excerpt(text.strip("\n").split("\n"), OWN))


def test_a_traceback_keeps_the_frames_of_the_user() -> None:
    assert (
        excerpt("""
INFO booting
Traceback (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main
  File "/opt/dovetail/cli/run_command.py", line 18, in run_command
    code = _run(words)
           ^^^^^^^^^^^
  File "/home/ann/server.py", line 8, in <module>
    load()
  File "/home/ann/.venv/lib/python3.11/site-packages/yaml/__init__.py", line 81, in load
    return loader.get_single_data()
KeyError: 'API_KEY'
""")
        == """\
  File "/home/ann/server.py", line 8, in <module>
    load()
KeyError: 'API_KEY'"""
    )


def test_a_syntax_error_has_no_header() -> None:
    text = """\
  File "/home/ann/server.py", line 4
    print((1, 2)
         ^
SyntaxError: '(' was never closed"""
    assert excerpt("starting\n" + text) == text


def test_of_chained_errors_the_last_one_is_kept() -> None:
    shown = excerpt("""
Traceback (most recent call last):
  File "/home/ann/a.py", line 1, in <module>
    first()
KeyError: 1

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/home/ann/b.py", line 2, in <module>
    second()
ValueError: two
over two lines
""")
    assert shown == '  File "/home/ann/b.py", line 2, in <module>\n    second()\nValueError: two\nover two lines'


def test_an_error_without_a_frame_of_the_user_keeps_its_last_frame() -> None:
    shown = excerpt("""
Traceback (most recent call last):
  File "/usr/lib/python3.11/runpy.py", line 1, in f
    f()
  File "/usr/lib/python3.11/json/decoder.py", line 2, in g
    g()
ValueError: bad
""")
    assert shown == '  File "/usr/lib/python3.11/json/decoder.py", line 2, in g\n    g()\nValueError: bad'


def test_a_deep_recursion_is_cut_to_the_innermost_frames() -> None:
    frames = "\n".join(f'  File "/home/ann/a.py", line {n}, in f\n    f()' for n in range(50))
    shown = excerpt(f"Traceback (most recent call last):\n{frames}\nRecursionError: too deep")
    assert [line for line in shown.splitlines() if "line" in line] == [
        f'  File "/home/ann/a.py", line {n}, in f' for n in (47, 48, 49)
    ]
    assert shown.endswith("RecursionError: too deep")


def test_a_stack_of_node_keeps_the_error_and_the_frames_of_the_user() -> None:
    assert (
        excerpt("""
node:internal/modules/cjs/loader:1228
  throw err;
  ^

Error: Cannot find module '/home/ann/x.js'
    at Module._resolveFilename (node:internal/modules/cjs/loader:1225:15)
    at /home/ann/node_modules/zod/index.js:1:1
    at main (/home/ann/index.js:3:1)

Node.js v22.1.0
""")
        == """\
node:internal/modules/cjs/loader:1228
  throw err;
  ^
Error: Cannot find module '/home/ann/x.js'
    at main (/home/ann/index.js:3:1)
Node.js v22.1.0"""
    )


def test_other_output_keeps_its_last_lines() -> None:
    lines = [str(n) for n in range(100)]
    assert stderr_excerpt(lines) == lines[-MAX_LINES:]
    assert stderr_excerpt(["", "  "]) == []


def test_a_traceback_long_before_the_end_is_not_what_ended_the_program() -> None:
    text = 'Traceback (most recent call last):\n  File "/a.py", line 1, in f\nValueError: x\n' + "log\n" * 20
    assert excerpt(text) == "\n".join(["log"] * MAX_LINES)
