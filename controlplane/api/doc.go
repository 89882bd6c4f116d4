// Package api is the gRPC envelope between agents and the control plane, generated from controlplane.proto. Commits,
// results and extents travel inside it as opaque bytes in the formats of packages commit and extent.
package api

//go:generate sh -c "cd ../.. && go tool -modfile=tools/generate/go.mod buf lint"
//go:generate sh -c "cd ../.. && go tool -modfile=tools/generate/go.mod buf generate"
//go:generate sh -c "cd ../.. && sha256sum controlplane/api/*.proto controlplane/api/*.pb.go controlplane/api/doc.go buf.* tools/generate/go.* > controlplane/api/generated.sum"
