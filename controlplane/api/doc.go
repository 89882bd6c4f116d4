// Package api is the gRPC envelope between agents and the control plane, generated from controlplane.proto. Commits,
// results and extents travel inside it as opaque bytes in the formats of packages commit and extent.
package api

//go:generate sh -c "cd ../.. && go tool -modfile=tools/generate/go.mod buf generate"
