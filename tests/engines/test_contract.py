"""Every arm of every engine keeps the contract."""

from __future__ import annotations

import pytest

from tests.engines.contract import EveryArm, Faults, TextContract, VectorContract

pytestmark = pytest.mark.slow


class TestEveryArm(EveryArm):
    pass


class TestVectors(VectorContract):
    pass


class TestText(TextContract):
    pass


class TestFaults(Faults):
    pass
