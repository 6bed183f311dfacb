"""One way to run a program to its end, for all tests: bounded in time, with its output captured, and its exit code checked."""
import os
import subprocess

SECONDS = 120  # for a program, unless a call says otherwise


class Finished(subprocess.CompletedProcess):
    """What a program has left: `returncode`, `stdout`, `stderr`."""

    @property
    def output(self):
        return self.stdout + self.stderr


def run(*command, code=0, seconds=None, env=None, environment=None, text=True, **more):
    """Runs a program and waits for its end; a Finished.

    command  the words, which may be paths or numbers
    code     the exit code that is right, or a collection of them; None: any. Another one is an AssertionError with the output
    seconds  after these (by default SECONDS), the program is killed, and subprocess.TimeoutExpired is raised
    env      variables beside those of this process; None as value: without that variable
    environment  the variables instead of those of this process
    text     False: `stdout` and `stderr` are bytes; otherwise what is not UTF-8 is text with backslashes
    more     of subprocess.run: cwd, input, stdin (by default, there is none) and others
    """
    words = [word if isinstance(word, bytes) else str(word) for word in command]
    variables = {**(os.environ if environment is None else environment), **(env or {})}
    variables = {name: value for name, value in variables.items() if value is not None}
    if "input" not in more:
        more.setdefault("stdin", subprocess.DEVNULL)
    if text:
        more.update(text=True, errors="backslashreplace")
    captured = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    done = subprocess.run(words, **{**captured, **more}, env=variables, timeout=seconds or SECONDS)
    if code is not None and done.returncode not in (code if isinstance(code, (tuple, list, set, range)) else (code,)):
        printed = "\n".join(str(part)[-3000:] for part in (done.stdout, done.stderr) if part)
        raise AssertionError(f"{words} ended with {done.returncode}:\n{printed}")
    return Finished(done.args, done.returncode, done.stdout, done.stderr)


def codecfs(*words, **more):
    """run() of the program that is tested, $CODECFS."""
    return run(os.environ["CODECFS"], *words, **more)
