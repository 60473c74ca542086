"""TDengine's functions of one row give what TDengine's manual says, all in two queries."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from lakestream.errors import LakestreamError
from lakestream.language.expressions import parse_expression
from lakestream.language.functions import OWN, SAME, Meaning
from lakestream.language.meaning import in_spark
from lakestream.language.model import Fragment
from lakestream.language.templates import made

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = yaml.safe_load(Path(__file__).with_name("functions.yaml").read_text())
NOW = made("TIMESTAMP '2025-03-01 17:30:00Z'", {})


def meant(expression: str, zone: str) -> str:
    fragment = Fragment(expression)
    return in_spark(parse_expression(fragment), Meaning(zone, NOW), fragment).sql("spark")


def wrong(found: Any, kind: str, case: list[Any]) -> bool:
    wanted = case[1]
    close = isinstance(wanted, float) and found is not None and math.isclose(found, wanted, abs_tol=1e-12)
    return not (close or (found == wanted and type(found) is type(wanted))) or kind != (*case, kind)[2]


@pytest.mark.spark
@pytest.mark.parametrize(("part", "zone"), [("cases", "UTC"), ("shanghai", "Asia/Shanghai")])
def test_figures(spark: SparkSession, part: str, zone: str) -> None:
    columns = ", ".join(f"{sql} AS {name}" for name, sql in DATA["columns"].items())
    cases = DATA[part]
    results = ", ".join(f"{meant(case[0], zone)} AS c{number}" for number, case in enumerate(cases))
    # Kept apart from the constants, so that functions run over columns as well as are folded.
    spark.sql(f"SELECT {columns}").createOrReplaceTempView("ls_functions")
    frame = spark.sql(f"SELECT {results} FROM ls_functions")
    row = frame.collect()[0]
    failed = [
        f"{case[0]}: {found!r} ({kind}), wanted {case[1:]}"
        for case, found, (_, kind) in zip(cases, row, frame.dtypes, strict=True)
        if wrong(found, kind, case)
    ]
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize(("expression", "code", "word"), DATA["refused"])
def test_refused(expression: str, code: str, word: str) -> None:
    with pytest.raises(LakestreamError) as caught:
        meant(expression, "UTC")
    assert caught.value.code == code
    assert word in str(caught.value)
    assert caught.value.place is not None


def test_every_function_has_a_figure_or_is_refused() -> None:
    said = " ".join(case[0].lower() for part in ("cases", "refused") for case in DATA[part])
    one_sided = {"leading trim", "trailing trim"}
    missing = {name for name in (OWN | SAME) - one_sided if f"{name}(" not in said}
    assert missing == {"rand", "aes_decrypt", "sm4_encrypt", "client_version", "server_status"} | {
        "current_user", "st_geomfromtext", "st_astext", "st_intersects", "st_equals", "st_touches",
        "st_covers", "st_containsproperly",
    }  # fmt: skip
