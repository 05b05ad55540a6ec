"""A training loop that can end in many ways, without torch: `loop.py RUN_DIR HOW`."""

import ctypes
import multiprocessing
import os
import signal
import sys
import time

import rankscope

run_dir, how = sys.argv[1:3]


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def stand() -> None:
    """In C code that no signal calls back to Python, as in a collective whose peer is gone: a lock taken twice."""
    system, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
    system.pthread_mutex_lock(mutex)
    say("standing")
    system.pthread_mutex_lock(mutex)


def user_handler(number: int, frame: object) -> None:
    say(f"user {number}")
    if how == "handled-exit":
        sys.exit(3)


def child(path: str) -> None:
    with rankscope.profile(path) as inner:  # its own recording is its own affair
        inner.step()


def forked() -> None:
    context = multiprocessing.get_context("fork")
    for target, arguments in ((time.sleep, (0.01,)), (child, (f"{run_dir}-child",))):
        process = context.Process(target=target, args=arguments)
        process.start()
        process.join()
        say(f"child {process.exitcode}")
    process = context.Process(target=time.sleep, args=(60,))
    process.start()
    time.sleep(0.2)
    process.terminate()
    process.join()
    say(f"child {process.exitcode}")


if how.startswith("handled"):
    signal.signal(signal.SIGTERM, user_handler)
if how == "ignored":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)

p = rankscope.profile(run_dir).start()
for step in range(20):
    p.log(loss=1.0 / (step + 1))
    p.step()
if how == "forever" or how.startswith("handled") or how == "ignored":
    time.sleep(1.3)  # longer than lines wait for their writer
    say("running")
    for _ in range(40 if how == "handled" else 2_000):
        time.sleep(0.05)
        p.step()
        if how == "ignored" and os.path.exists(f"{run_dir}/enough"):
            break
if how == "raise":
    raise LookupError("what training says")
if how == "exit":
    sys.exit(5)
if how == "os-exit":
    time.sleep(1.3)
    os._exit(6)
if how == "stand":
    stand()
if how == "fork":
    forked()
if how == "stop":
    p.stop()
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL or sys.excepthook is not sys.__excepthook__:
        sys.exit(9)
