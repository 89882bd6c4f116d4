// Package ctl has the commands of `freshet ctl`: a client of the HTTP API for tenants (package httpapi).
package ctl
