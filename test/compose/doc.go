// Package compose runs deploy/compose with podman-compose in namespaces of its own (stack.sh), and the commands of docs/compose.md in their
// order. Meanwhile one client produces and another one consumes. In the end every record must have been read once and in order, and
// "down" must leave no container, volume or network. `make e2e-compose` runs it as root on Debian; other test commands skip it.
//
// Nothing is pulled from a registry. The images of etcd and the S3 server contain programs built from tools/servers, and those of HAProxy and
// Prometheus contain Debian's, which are older than the versions in .env. Podman 4.3 does not wait for health checks, so the test does.
package compose
