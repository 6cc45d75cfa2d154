"""A user's own package: importing it registers all that it has, as `--import` wants it."""

import tacit
from own_recommenders.datasets import mornings
from own_recommenders.methods import SHRUNK_NCF
from own_recommenders.plugins import SHRINK_ROWS

tacit.METHODS["shrunk_ncf"] = SHRUNK_NCF
tacit.PLUGINS["shrink_rows"] = SHRINK_ROWS
tacit.SOURCES["mornings"] = mornings
