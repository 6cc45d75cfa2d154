"""Papers and controls as expressions over parts. To add one: a file here, and one line below."""

from tacit.methods.ease import Ease as Ease
from tacit.methods.entry import METHODS as METHODS
from tacit.methods.entry import Entry as Entry
from tacit.methods.fedmf import fedmf as fedmf
from tacit.methods.fedncf import fedncf as fedncf
from tacit.methods.local_only import local_only as local_only
from tacit.methods.pfedrec import pfedrec as pfedrec
from tacit.methods.popularity import Popularity as Popularity
from tacit.methods.pure_svd import PureSvd as PureSvd
from tacit.methods.random_order import RandomOrder as RandomOrder
