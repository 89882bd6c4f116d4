package s3

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/middleware"

	"github.com/freshet-io/freshet/objstore"
)

// openTimeout bounds the opening of one session.
const openTimeout = 10 * time.Second

// newClient gives a client that tells why a session of a directory bucket could not be opened: the SDK makes a text of that
// error (s3/internal/customizations.ExpressIdentityResolver), so that a refusal, a store that is away and one with too much
// to do all looked like a mistake of the caller's. The SDK also opens a session for each request that finds the old one about
// to end, and gives it up with the request; here there is one at a time, which is nobody's in particular.
func newClient(options awss3.Options) *awss3.Client {
	opener := options.Copy()
	opener.APIOptions = append(opener.APIOptions, func(stack *middleware.Stack) error {
		return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("OpenForAll", openForAll), middleware.Before)
	})
	options = options.Copy()
	options.ExpressCredentials = sessions{awss3.New(opener).Options().ExpressCredentials}
	options.APIOptions = append(options.APIOptions, func(stack *middleware.Stack) error {
		return stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("SessionErrors", tellSessionError), "GetIdentity", middleware.Before)
	})
	return awss3.New(options)
}

// openForAll frees the opening of a session from the request that it was begun for.
func openForAll(
	ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler,
) (middleware.InitializeOutput, middleware.Metadata, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), openTimeout)
	defer cancel()
	return next.HandleInitialize(ctx, in)
}

// sessions notes in the request's context why it has no session.
type sessions struct {
	awss3.ExpressCredentialsProvider
}

// sessionErrorKey is the key of an *error in the context of a request.
type sessionErrorKey struct{}

// Retrieve implements awss3.ExpressCredentialsProvider.
func (s sessions) Retrieve(ctx context.Context, bucket string) (aws.Credentials, error) {
	c, err := s.ExpressCredentialsProvider.Retrieve(ctx, bucket)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	if noted, ok := ctx.Value(sessionErrorKey{}).(*error); ok {
		*noted = err
	}
	return c, err
}

// tellSessionError puts the error itself in the place of its text.
func tellSessionError(
	ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler,
) (middleware.FinalizeOutput, middleware.Metadata, error) {
	var noted error
	out, metadata, err := next.HandleFinalize(context.WithValue(ctx, sessionErrorKey{}, &noted), in)
	if err != nil && noted != nil {
		err = &sessionError{noted}
	}
	return out, metadata, err
}

// sessionError is why no session was opened for a request, which then was not sent.
type sessionError struct{ error }

func (e *sessionError) Unwrap() error { return e.error }

func (e *sessionError) Error() string {
	return "open a session (s3express:CreateSession): " + brief{e.error}.Error()
}

// classify gives the sentinel: the store said something of the bucket, of who asks and of itself, but nothing of an object.
func (e *sessionError) classify() error {
	sentinel := classify(e.error)
	for _, telling := range []error{objstore.ErrRefused, objstore.ErrNoBucket, objstore.ErrThrottled, objstore.ErrOutcomeUnknown} {
		if errors.Is(sentinel, telling) {
			return sentinel
		}
	}
	return nil
}
