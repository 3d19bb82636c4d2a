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

from fedwad.tables._agree import agree
from fedwad.tables._conflicts import Conflict
from fedwad.tables._elementwise import (
    encode_elementwise,
    label_text,
    label_texts,
    read_numbers_elementwise,
)
from fedwad.tables._encode import label_values
from fedwad.tables._frames import is_frame
from fedwad.tables._plain import plain_table
from fedwad.tables._profile import ColumnStatistics, Profile, profile
from fedwad.tables._profile_checks import check_profile, smallest_group
from fedwad.tables._rare import hide_rare
from fedwad.tables._reading import FORMATS, check_file, file_suffix, read_table
from fedwad.tables._schema import Schema
from fedwad.tables._schema_column import OTHER, SchemaColumn
from fedwad.tables._schema_conflicts import find_schema_conflicts
from fedwad.tables._table import Column, Table, drop_hint

__all__ = [
    "FORMATS",
    "OTHER",
    "Column",
    "ColumnStatistics",
    "Conflict",
    "Profile",
    "Schema",
    "SchemaColumn",
    "Table",
    "agree",
    "check_file",
    "check_profile",
    "drop_hint",
    "encode_elementwise",
    "file_suffix",
    "find_schema_conflicts",
    "hide_rare",
    "is_frame",
    "label_text",
    "label_texts",
    "label_values",
    "plain_table",
    "profile",
    "read_numbers_elementwise",
    "read_table",
    "smallest_group",
]
