"""Files: what DuckDB may and may not do, and that both readers give the same table."""

from __future__ import annotations

from separatrix.auditing.tables import count_rows
from separatrix.columns.readers import scan
from separatrix.core.counts import CountTable


def test_no_progress_bar_is_drawn_into_the_output(tmp_path):
    """DuckDB would draw one on the standard output, into the JSON of `separatrix audit --json`."""
    path = tmp_path / "rows.csv"
    path.write_text("y,z,u\n0,a,0\n1,b,1\n")
    relation = scan([path]).relation
    ((drawn,),) = relation.query("rows", "SELECT current_setting('enable_progress_bar')").fetchall()
    assert not drawn


def test_the_tables_of_parts_add_to_the_table_of_all_files(tmp_path):
    for part, rows in enumerate(("0,a,0\n1,b,1\n", "1,c,0\n1,b,1\n0,a,1\n")):
        (tmp_path / f"part-{part}.csv").write_text(f"y,z,u\n{rows}")
    tables = [count_rows(path, y="y", z="z", pred="u") for path in sorted(tmp_path.iterdir())]
    whole = count_rows(tmp_path / "*.csv", y="y", z="z", pred="u")
    merged = CountTable.merge(tables)
    assert (merged.labels, merged.groups, merged.rows) == (whole.labels, whole.groups, whole.rows)
    assert (merged.counts == whole.counts).all()
