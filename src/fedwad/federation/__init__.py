"""Requests and replies, clients with their policy and ledger, and federations of clients."""

from fedwad.federation.federation import (
    Federation,
    MeteredFederation,
    Site,
    Traffic,
    check_same_features,
    choose_sites,
)
from fedwad.federation.in_process import LocalFederation, as_federation, local, schema
from fedwad.federation.journal import Journal
from fedwad.federation.kept import KeptFederation, KeptReply
from fedwad.federation.moments import Moments, ask_moments, public_units
from fedwad.federation.remote import (
    RemoteFederation,
    describe_message,
    pack_failure,
    unpack_description,
)
from fedwad.federation.schemas import (
    SchemaFederation,
    agreed_schema,
    ensure_schema,
    fill_clipping,
    private_schema,
)
from fedwad.messages.codec import Envelope, pack, payload_bytes, unpack
from fedwad.messages.columns import ColumnsReply, ColumnsRequest, DescribeRequest, Description
from fedwad.messages.learning import (
    EvaluateRequest,
    Evaluation,
    Labels,
    LabelsRequest,
    Prototypes,
    PrototypesRequest,
    TrainReply,
    TrainRequest,
    all_label_names,
)
from fedwad.messages.message import (
    KINDS,
    Bundle,
    BundleReply,
    ClassStatistics,
    Failure,
    LabelName,
    Reply,
    Request,
    error_of,
    failure_of,
)
from fedwad.messages.private import (
    PrivateColumnsReply,
    PrivateColumnsRequest,
    PrivateReply,
    PrivateRequest,
)
from fedwad.messages.samples import (
    AtomsRequest,
    CellsRequest,
    CellSums,
    DistanceRequest,
    SummaryReply,
    SummaryRequest,
    TransportReply,
    TransportRequest,
)
from fedwad.site.answers import draw_t
from fedwad.site.client import Client, accept_data, load_site_data, open_client
from fedwad.site.columns import Columns
from fedwad.site.data import Dataset
from fedwad.site.policy import Policy
from fedwad.site.raw import RawTable
from fedwad.site.reading import read, read_raw, read_sites
from fedwad.site.store import Entry, FileLedger, Ledger, open_view
