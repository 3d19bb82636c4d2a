"""Who can be asked what: requests and replies, clients with their policy and ledger, and federations of them."""

from fedwad.federation.client import Client
from fedwad.federation.codec import LARGEST, VERSION, Letter, pack, unpack
from fedwad.federation.columns import Columns
from fedwad.federation.data import Dataset, aligned
from fedwad.federation.federation import Answer, Federation, Line, Question, Site, Traffic, chosen
from fedwad.federation.journal import Journal
from fedwad.federation.kinds import KINDS
from fedwad.federation.kinds.atoms import AtomsRequest, CellSums
from fedwad.federation.kinds.describe import DescribeRequest, Description
from fedwad.federation.kinds.labels import LabelName, Labels, LabelsRequest, agreed_names
from fedwad.federation.kinds.moments import Moments, MomentsRequest
from fedwad.federation.kinds.private import PrivateReply, PrivateRequest
from fedwad.federation.kinds.prototypes import Prototypes, PrototypesRequest
from fedwad.federation.kinds.summary import SummaryReply, SummaryRequest
from fedwad.federation.kinds.train import EvaluateRequest, Evaluation, TrainReply, TrainRequest
from fedwad.federation.kinds.transport import CellsRequest, TransportReply, TransportRequest
from fedwad.federation.ledger import Entry, FileLedger, Ledger, read_ledger
from fedwad.federation.local import LocalFederation, local
from fedwad.federation.message import Classes, Reply, Request
from fedwad.federation.node import open_client
from fedwad.federation.policy import Policy
from fedwad.federation.purse import ending_promise
from fedwad.federation.reading import FORMATS, read
from fedwad.federation.remote import RemoteFederation, describe_letter, encode_failure, site_name
from fedwad.federation.replies import BundleReply, Failure, error_of, payload
from fedwad.federation.requests import Bundle

__all__ = [
    "FORMATS",
    "KINDS",
    "LARGEST",
    "VERSION",
    "Answer",
    "AtomsRequest",
    "Bundle",
    "BundleReply",
    "CellSums",
    "CellsRequest",
    "Classes",
    "Client",
    "Columns",
    "Dataset",
    "DescribeRequest",
    "Description",
    "Entry",
    "EvaluateRequest",
    "Evaluation",
    "Failure",
    "Federation",
    "FileLedger",
    "Journal",
    "LabelName",
    "Labels",
    "LabelsRequest",
    "Ledger",
    "Letter",
    "Line",
    "LocalFederation",
    "Moments",
    "MomentsRequest",
    "Policy",
    "PrivateReply",
    "PrivateRequest",
    "Prototypes",
    "PrototypesRequest",
    "Question",
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
    "agreed_names",
    "aligned",
    "chosen",
    "describe_letter",
    "encode_failure",
    "ending_promise",
    "error_of",
    "local",
    "open_client",
    "pack",
    "payload",
    "read",
    "read_ledger",
    "site_name",
    "unpack",
]
