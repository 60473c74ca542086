"""Notifications: what events look like, where they are kept until they are sent, and how they are sent."""
