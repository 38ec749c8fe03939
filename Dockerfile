# The image of teeline: wheels are built in one stage, the other holds what runs and nothing else.
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
RUN python -m venv /opt/teeline
COPY pyproject.toml README.md LICENSE ./
COPY validators validators
COPY config config
COPY proxy proxy
RUN pip wheel --no-cache-dir --wheel-dir /wheels . \
    && /opt/teeline/bin/pip install --no-cache-dir --no-index --find-links /wheels teeline

FROM python:3.11-slim-bookworm
# Numeric, so that an orchestrator that demands a user other than root can tell (runAsNonRoot).
RUN groupadd --gid 10001 teeline \
    && useradd --uid 10001 --gid teeline --no-create-home --home-dir /data --shell /usr/sbin/nologin teeline \
    && install --directory --owner=teeline --group=teeline --mode=0700 /data
COPY --from=build /opt/teeline /opt/teeline
ENV PATH=/opt/teeline/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
# The audit log (teeline-data) lies here: the one folder that is written to.
WORKDIR /data
EXPOSE 8787
# For `serve`; what has no admin port switches it off (docker run --no-healthcheck).
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s CMD ["teeline", "healthcheck"]
ENTRYPOINT ["teeline"]
CMD ["--help"]
