# SPDX-License-Identifier: Apache-2.0
"""The schemas are the published ones, byte for byte, and are found in a working tree and in a wheel alike."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from sediment_otel._resources import ResourceError, load_schema, read_resource, resource_names

ROOT = Path(__file__).parents[2]

VERBATIM = {
    "inference-call-v1.json": "e88a27e2bc80ed7337cec71412a712ae32b82a23f0881ca6f4ae39cf05445ba7",
    "inference-message-v1.json": "9cf04db2fc3bddc59b871e906f3eed495ecbf5f356d9a822e647c318ff4dfbe0",
    "network.sharedcomputer.chat.message.json": "bb647e44aae3820ad3f6aa96bf05895ab8af5c4adad293518d9fe48efab49a91",
    "otel-gen-ai-system-instructions.json": "36ec347c12c96cdbb344adc3d42b6232317fb3b03f134c1318fb9a50e9907487",
}


@pytest.mark.parametrize(("name", "digest"), VERBATIM.items())
def test_a_schema_is_kept_verbatim(name: str, digest: str) -> None:
    assert hashlib.sha256(read_resource(name)).hexdigest() == digest


@pytest.mark.parametrize("name", ["inference-call-v1", "inference-message-v1.json"])
def test_a_schema_of_sediment_loads_with_and_without_its_ending_and_is_valid(name: str) -> None:
    Draft202012Validator.check_schema(load_schema(name))


def test_a_caller_that_changes_a_schema_changes_only_its_own() -> None:
    load_schema("inference-call-v1").clear()
    assert load_schema("inference-call-v1")["title"] == "InferenceCall"


@pytest.mark.parametrize("name", ["inference-call-v2", "", "../pyproject.toml", "/etc/hostname", "semconv\0"])
def test_an_unknown_name_or_a_path_is_refused_and_the_known_ones_are_listed(name: str) -> None:
    with pytest.raises(ResourceError, match=r"registry\.yaml"):
        read_resource(name)


def test_a_wheel_carries_what_the_code_reads(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=60)
    (wheel,) = tmp_path.glob("*.whl")
    unpacked = tmp_path / "unpacked"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import sediment_otel; from sediment_otel._resources import load_schema, resource_names\n"
        "assert sediment_otel.__file__.startswith(sys.argv[1]), sediment_otel.__file__\n"
        "assert load_schema('inference-call-v1')['title'] == 'InferenceCall'\n"
        "print(*resource_names())"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, str(unpacked)], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == resource_names()
    assert (unpacked / "sediment_otel" / "py.typed").is_file()
    (licence,) = unpacked.glob("*.dist-info/licenses/LICENSE")
    assert "Apache License" in licence.read_text()
