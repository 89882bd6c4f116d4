package s3

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/freshet-io/freshet/objstore"
)

// provider marks the errors of a provider of credentials as such: the SDK asks the services of containers (ECS, EKS Pod
// Identity), of instances and of roles by clients whose errors have nothing in common, and some of which have no text.
type provider struct{ aws.CredentialsProvider }

// Retrieve implements aws.CredentialsProvider.
func (p provider) Retrieve(ctx context.Context) (aws.Credentials, error) {
	c, err := p.CredentialsProvider.Retrieve(ctx)
	if err != nil {
		return c, &credentialsError{err}
	}
	return c, nil
}

// credentialsError is objstore.ErrNoCredentials, with the provider's reason.
type credentialsError struct{ error }

func (e *credentialsError) Unwrap() error { return e.error }

func (e *credentialsError) Is(target error) bool { return target == objstore.ErrNoCredentials }

// Error gives the reason with the status that was answered: a service may have said nothing else.
func (e *credentialsError) Error() string {
	text := fmt.Sprintf("%s: %s", objstore.ErrNoCredentials, strings.TrimRight(e.error.Error(), ": "))
	if status := strconv.Itoa(statusOf(e.error)); status != "0" && !strings.Contains(text, status) {
		text += " (status " + status + ")"
	}
	return text
}
