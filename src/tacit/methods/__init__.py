"""Papers and controls as expressions over parts. To add one: a file here, and one line below."""

from tacit.methods.cofedrec import cofedrec as cofedrec
from tacit.methods.ease import Ease as Ease
from tacit.methods.entry import METHODS as METHODS
from tacit.methods.entry import Entry as Entry
from tacit.methods.fcf import fcf as fcf
from tacit.methods.fcf_als import FcfAls as FcfAls
from tacit.methods.fedavg import fedavg as fedavg
from tacit.methods.feddae import FedDAE as FedDAE
from tacit.methods.fedease import FedEase as FedEase
from tacit.methods.fedmf import fedmf as fedmf
from tacit.methods.fedncf import fedncf as fedncf
from tacit.methods.fedpergnn import FedPerGNN as FedPerGNN
from tacit.methods.fedrap import fedrap as fedrap
from tacit.methods.fedrecon import fedrecon as fedrecon
from tacit.methods.fedspectral import FedSpectral as FedSpectral
from tacit.methods.gpfedrec import gpfedrec as gpfedrec
from tacit.methods.local_only import local_only as local_only
from tacit.methods.metamf import MetaMF as MetaMF
from tacit.methods.mf import Mf as Mf
from tacit.methods.ncf import Ncf as Ncf
from tacit.methods.neumf import NeuMf as NeuMf
from tacit.methods.pfedrec import pfedrec as pfedrec
from tacit.methods.popularity import Popularity as Popularity
from tacit.methods.pure_svd import PureSvd as PureSvd
from tacit.methods.random_order import RandomOrder as RandomOrder
from tacit.methods.unseen_first import UnseenFirst as UnseenFirst
