"""Raw tables: reading them, agreeing on a schema between sites, and encoding them as matrices.

>>> import pyarrow as pa
>>> from fedwad.tables import agree, profile, read_table
>>> paris = read_table(pa.table({"age": ["61.5", "?", "45"] * 8, "sex": ["f", "m", "m"] * 8}))
>>> oslo = read_table(pa.table({"age": [50.5, 60, 70] * 8, "sex": ["f", "f", "m"] * 8}))
>>> schema = agree({"paris": profile(paris, 5), "oslo": profile(oslo, 5)})
>>> schema.feature_names
('age', 'age=missing', 'sex=f', 'sex=m', 'sex=other')
>>> schema.encode(paris).shape
(24, 5)
"""

from fedwad.tables.agreement import agree, encoded_moments, pool
from fedwad.tables.batches import HELD_ROWS, merge, part_of
from fedwad.tables.conflicts import Conflict, find_schema_conflicts
from fedwad.tables.database import database_name, has_password, is_database, redact
from fedwad.tables.encode import TRUTH, label_text
from fedwad.tables.profiles import ColumnStatistics, Profile, check_profile, profile, smallest_group
from fedwad.tables.read import (
    as_strings,
    check_file,
    files_by_site,
    is_frame,
    read_table,
    table_files,
)
from fedwad.tables.schema import Schema
from fedwad.tables.schema_column import OTHER, SchemaColumn
from fedwad.tables.select import condition_column
from fedwad.tables.table import Column, drop_hint
