// Package testservers builds and starts the real servers that tests run against: versitygw, an S3 server over a
// directory, and etcd. They are processes of their own on loopback ports, so that a test can kill, pause and restart
// each; they end with the test, and with the test process if that dies (on Linux).
//
// The versions are those of the module tools/servers. Binaries are built on first use, into the user's cache
// directory under a hash of that module's go.sum.
package testservers
