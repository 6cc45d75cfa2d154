"""Functions from a method to a method: what papers call plug-ins."""

from tacit.plugins.channel import clip as clip
from tacit.plugins.channel import gaussian as gaussian
from tacit.plugins.channel import laplace as laplace
from tacit.plugins.channel import project as project
from tacit.plugins.channel import quantise as quantise
from tacit.plugins.channel import top_k as top_k
from tacit.plugins.entry import PLUGINS as PLUGINS
from tacit.plugins.entry import Plugin as Plugin
from tacit.plugins.entry import Promise as Promise
from tacit.plugins.fedrkg import fedrkg as fedrkg
from tacit.plugins.fedrkg import global_table as global_table
from tacit.plugins.fedrkg import knowledge_guidance as knowledge_guidance
from tacit.plugins.fedrkg import personal_table as personal_table
from tacit.plugins.personal import dual_personalised as dual_personalised
from tacit.plugins.private import private as private
from tacit.plugins.recency import recency as recency
