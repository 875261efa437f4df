"""Our server that asks for everything there is to ask for, over HTTP; it prints its address first."""

from tests.matrix.eliciting_server import build
from tests.support.http import announce_and_serve

announce_and_serve(build().asgi())
