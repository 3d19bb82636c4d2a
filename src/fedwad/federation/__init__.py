"""Who can be asked what: requests and replies, clients with their policy and ledger, and federations of them."""

from fedwad.federation.client import Client
from fedwad.federation.data import Dataset, aligned
from fedwad.federation.federation import Federation, Line, Site, Traffic
from fedwad.federation.ledger import Entry, Ledger
from fedwad.federation.local import LocalFederation, local
from fedwad.federation.messages import (
    KINDS,
    CellsRequest,
    Moments,
    MomentsRequest,
    Reply,
    Request,
    SummaryReply,
    SummaryRequest,
    TransportReply,
    TransportRequest,
    payload,
)
from fedwad.federation.policy import Policy
from fedwad.federation.reading import FORMATS, read

__all__ = [
    "FORMATS",
    "KINDS",
    "CellsRequest",
    "Client",
    "Dataset",
    "Entry",
    "Federation",
    "Ledger",
    "Line",
    "LocalFederation",
    "Moments",
    "MomentsRequest",
    "Policy",
    "Reply",
    "Request",
    "Site",
    "SummaryReply",
    "SummaryRequest",
    "Traffic",
    "TransportReply",
    "TransportRequest",
    "aligned",
    "local",
    "payload",
    "read",
]
