package s3

import (
	"context"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	smithyauth "github.com/aws/smithy-go/auth"
	smithyendpoints "github.com/aws/smithy-go/endpoints"
)

// endpoints remembers where requests go. The SDK works that out anew twice for each request, compiling regular
// expressions on the way, and of a request's parameters only the key and the prefix change, on which it does not depend.
type endpoints struct {
	inner awss3.EndpointResolverV2

	mu    sync.Mutex
	known map[endpointKey]smithyendpoints.Endpoint // guarded by mu; at most maxEndpoints
}

// maxEndpoints is far more than the operations of one bucket have; what is beyond is worked out each time.
const maxEndpoints = 16

func newEndpoints() *endpoints {
	return &endpoints{inner: awss3.NewDefaultEndpointResolverV2(), known: map[endpointKey]smithyendpoints.Endpoint{}}
}

// endpointKey is what an endpoint depends on: all parameters but key, prefix and the source of a copy.
type endpointKey struct {
	bucket, region, endpoint                                                       string
	fips, dualStack, pathStyle, accelerate, global, objectLambda, noAccessPoints   bool
	noMultiRegion, arnRegion, hasARNRegion, expressControl, noExpress, hasEndpoint bool
}

func keyOf(p *awss3.EndpointParameters) endpointKey {
	return endpointKey{
		bucket: aws.ToString(p.Bucket), region: aws.ToString(p.Region),
		endpoint: aws.ToString(p.Endpoint), hasEndpoint: p.Endpoint != nil,
		fips: aws.ToBool(p.UseFIPS), dualStack: aws.ToBool(p.UseDualStack), pathStyle: aws.ToBool(p.ForcePathStyle),
		accelerate: aws.ToBool(p.Accelerate), global: aws.ToBool(p.UseGlobalEndpoint),
		objectLambda: aws.ToBool(p.UseObjectLambdaEndpoint), noAccessPoints: aws.ToBool(p.DisableAccessPoints),
		noMultiRegion: aws.ToBool(p.DisableMultiRegionAccessPoints),
		arnRegion:     aws.ToBool(p.UseArnRegion), hasARNRegion: p.UseArnRegion != nil,
		expressControl: aws.ToBool(p.UseS3ExpressControlEndpoint), noExpress: aws.ToBool(p.DisableS3ExpressSessionAuth),
	}
}

// ResolveEndpoint implements awss3.EndpointResolverV2.
func (e *endpoints) ResolveEndpoint(ctx context.Context, p awss3.EndpointParameters) (smithyendpoints.Endpoint, error) {
	if p.Bucket == nil || p.Region == nil || p.CopySource != nil {
		return e.inner.ResolveEndpoint(ctx, p)
	}
	key := keyOf(&p)
	e.mu.Lock()
	defer e.mu.Unlock()
	if known, ok := e.known[key]; ok {
		return cloneEndpoint(known), nil
	}
	resolved, err := e.inner.ResolveEndpoint(ctx, p)
	if err == nil && len(e.known) < maxEndpoints {
		e.known[key] = cloneEndpoint(resolved)
	}
	return resolved, err
}

// cloneEndpoint copies all that the SDK changes in an endpoint it was given: the properties of its way to sign.
func cloneEndpoint(e smithyendpoints.Endpoint) smithyendpoints.Endpoint {
	c := smithyendpoints.Endpoint{URI: e.URI, Headers: e.Headers.Clone()}
	c.Properties.SetAll(&e.Properties)
	options, ok := smithyauth.GetAuthOptions(&e.Properties)
	if !ok {
		return c
	}
	copies := make([]*smithyauth.Option, len(options))
	for i, o := range options {
		copies[i] = &smithyauth.Option{
			SchemeID: o.SchemeID, IdentityProperties: cloneProperties(&o.IdentityProperties),
			SignerProperties: cloneProperties(&o.SignerProperties),
		}
	}
	smithyauth.SetAuthOptions(&c.Properties, copies)
	return c
}

func cloneProperties(p *smithy.Properties) (c smithy.Properties) {
	c.SetAll(p)
	return c
}
