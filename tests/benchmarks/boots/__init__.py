"""Boots over RabbitMQ and PostgreSQL: python -m tests.benchmarks.boots"""
