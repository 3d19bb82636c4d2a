"""Requests and replies, clients with their policy and ledger, and federations of clients."""

from fedwad.federation._ledger_file import FileLedger
from fedwad.federation.accountant import guarantee_warning
from fedwad.federation.agreement import check_same_features, client_seed, feature_count
from fedwad.federation.bundle import MAX_BUNDLE, Bundle, BundleReply
from fedwad.federation.client import Client
from fedwad.federation.codec import Envelope, pack, unpack
from fedwad.federation.columns import Columns
from fedwad.federation.data import Dataset, align_columns
from fedwad.federation.failures import Failure, error_of, failure_of
from fedwad.federation.federation import Federation, MeteredFederation, Site, Traffic, choose_sites
from fedwad.federation.in_process import LocalFederation, as_federation, local
from fedwad.federation.journal import Journal
from fedwad.federation.kept import KeptFederation, KeptReplies, KeptReply, ask_to_keep, check_keep
from fedwad.federation.ledger import Entry, Ledger, read_ledger
from fedwad.federation.message import Reply, Request
from fedwad.federation.needs import KINDS, ClassStatistics
from fedwad.federation.node import accept_data, load_site_data, open_client
from fedwad.federation.policy import Policy
from fedwad.federation.proposal import private_schema_of_tables, schema, schema_of_tables
from fedwad.federation.raw import RawTable, as_dataset, schema_with_conflicts
from fedwad.federation.reading import FORMATS, is_readable, read, read_raw
from fedwad.federation.remote import (
    RemoteFederation,
    describe_message,
    pack_failure,
    unpack_description,
)
from fedwad.federation.replies import payload_bytes
from fedwad.federation.requests.atoms import AtomsRequest, CellSums
from fedwad.federation.requests.blocks import BlocksReply, BlocksRequest
from fedwad.federation.requests.describe import DescribeRequest, Description
from fedwad.federation.requests.labels import LabelName, Labels, LabelsRequest, all_label_names
from fedwad.federation.requests.moments import Moments, MomentsRequest
from fedwad.federation.requests.private import PrivateReply, PrivateRequest
from fedwad.federation.requests.private_schema import PrivateSchemaReply, PrivateSchemaRequest
from fedwad.federation.requests.prototypes import Prototypes, PrototypesRequest
from fedwad.federation.requests.schema import AdoptSchemaRequest, ProfileReply, ProfileRequest
from fedwad.federation.requests.summary import SummaryReply, SummaryRequest
from fedwad.federation.requests.train import EvaluateRequest, Evaluation, TrainReply, TrainRequest
from fedwad.federation.requests.transport import CellsRequest, TransportReply, TransportRequest
from fedwad.federation.schemas import (
    AgreedFederation,
    agreed_schema,
    ensure_schema,
    fill_clipping,
    private_schema,
    with_schema,
)

__all__ = [
    "FORMATS",
    "KINDS",
    "MAX_BUNDLE",
    "AdoptSchemaRequest",
    "AgreedFederation",
    "AtomsRequest",
    "BlocksReply",
    "BlocksRequest",
    "Bundle",
    "BundleReply",
    "CellSums",
    "CellsRequest",
    "ClassStatistics",
    "Client",
    "Columns",
    "Dataset",
    "DescribeRequest",
    "Description",
    "Entry",
    "Envelope",
    "EvaluateRequest",
    "Evaluation",
    "Failure",
    "Federation",
    "FileLedger",
    "Journal",
    "KeptFederation",
    "KeptReplies",
    "KeptReply",
    "LabelName",
    "Labels",
    "LabelsRequest",
    "Ledger",
    "LocalFederation",
    "MeteredFederation",
    "Moments",
    "MomentsRequest",
    "Policy",
    "PrivateReply",
    "PrivateRequest",
    "PrivateSchemaReply",
    "PrivateSchemaRequest",
    "ProfileReply",
    "ProfileRequest",
    "Prototypes",
    "PrototypesRequest",
    "RawTable",
    "RemoteFederation",
    "Reply",
    "Request",
    "Site",
    "SummaryReply",
    "SummaryRequest",
    "Traffic",
    "TrainReply",
    "TrainRequest",
    "TransportReply",
    "TransportRequest",
    "accept_data",
    "agreed_schema",
    "align_columns",
    "all_label_names",
    "as_dataset",
    "as_federation",
    "ask_to_keep",
    "check_keep",
    "check_same_features",
    "choose_sites",
    "client_seed",
    "describe_message",
    "ensure_schema",
    "error_of",
    "failure_of",
    "feature_count",
    "fill_clipping",
    "guarantee_warning",
    "is_readable",
    "load_site_data",
    "local",
    "open_client",
    "pack",
    "pack_failure",
    "payload_bytes",
    "private_schema",
    "private_schema_of_tables",
    "read",
    "read_ledger",
    "read_raw",
    "schema",
    "schema_of_tables",
    "schema_with_conflicts",
    "unpack",
    "unpack_description",
    "with_schema",
]
