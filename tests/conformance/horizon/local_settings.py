"""Horizon's settings, as an operator's: copied to openstack_dashboard/local of the environment that has Horizon."""

import os

# Static files are served by Django; an exception is a page with status 500.
DEBUG = True
COMPRESS_ENABLED = True
ALLOWED_HOSTS = ["127.0.0.1"]
SECRET_KEY = "of a run"
OPENSTACK_KEYSTONE_URL = os.environ["HORIZON_KEYSTONE"]
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
SESSION_ENGINE = "django.contrib.sessions.backends.file"
SESSION_FILE_PATH = os.environ["HORIZON_FOLDER"]
STATIC_ROOT = f"{SESSION_FILE_PATH}/static"
