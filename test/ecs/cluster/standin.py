"""Runs ministack with three changes: CloudFormation keeps the secrets of containers, and each task is looked at once a second. Ten
times a second keeps a core busy. A task is stable after three seconds, so that an end at start is seen before."""

import sys
import time
import types

from ministack import app
from ministack.services import ecs
from ministack.services.cloudformation import provisioners


def container_definitions(definitions):
    """In ECS, names of fields begin with a small letter, also in lists."""
    return [{provisioners._cfn_to_camel(key): named(key, value) for key, value in d.items()} for d in definitions]


def named(key, value):
    return value if key == "DockerLabels" else provisioners._pascal_to_camel(value)


def sleep(seconds):
    time.sleep(1 if seconds == 0.1 else seconds)


provisioners._normalize_container_defs = container_definitions
ecs._ECS_DEPLOYMENT_STEADY_DELAY = 3
ecs.time = types.SimpleNamespace(**{**vars(time), "sleep": sleep})
sys.exit(app.main())
