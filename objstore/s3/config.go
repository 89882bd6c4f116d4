package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/objstore"
)

// Config says where a bucket is and who asks.
type Config struct {
	// Bucket is the bucket's name.
	Bucket string
	// Prefix is put in front of every key, with a slash between; empty for the whole bucket.
	Prefix string
	// Region is the bucket's region. Empty: the SDK's default chain says, or "us-east-1" if there is an endpoint.
	Region string
	// Endpoint is the URL of an S3-compatible store. Empty: AWS.
	Endpoint string
	// PathStyle puts the bucket in the path instead of the host name.
	PathStyle bool
	// CAFile is a PEM file of the authorities that the endpoint's certificate is checked with. Empty: the system's.
	CAFile string
	// AccessKey and SecretKey are credentials. Empty: the SDK's default chain (environment, files, instance role).
	AccessKey, SecretKey string
	// RequestTimeout bounds every request but those with an object's bytes: Put, Get, and the parts and the end of an upload. A store that
	// takes a request and never answers would otherwise hold up its caller for good. Default 1 min.
	RequestTimeout time.Duration
	// Log gets what the SDK says by itself, at debug level: what fails is an error, too. nil: nothing.
	Log *zap.Logger
}

// ParseURL reads s3://bucket/prefix?region=…&endpoint=…&path-style=true&ca-file=…&access-key=…&secret-key=…. Parameters
// not of this list are an error, and so is a name that S3 does not allow.
func ParseURL(u *url.URL) (Config, error) {
	c := Config{Bucket: u.Host, Prefix: strings.Trim(u.Path, "/")}
	var faults []error
	for name, values := range u.Query() {
		value := values[len(values)-1]
		switch name {
		case "region":
			c.Region = value
		case "endpoint":
			c.Endpoint = value
		case "ca-file":
			c.CAFile = value
		case "access-key":
			c.AccessKey = value
		case "secret-key":
			c.SecretKey = value
		case "path-style":
			style, err := strconv.ParseBool(value)
			if err != nil {
				faults = append(faults, fmt.Errorf("path-style: %q is not true or false", value))
			}
			c.PathStyle = style
		default:
			faults = append(faults, fmt.Errorf("unknown parameter %q", name))
		}
	}
	faults = append(faults, checkName(c.Bucket), c.Validate())
	return c, errors.Join(faults...)
}

// Validate gives all faults of the configuration at once.
func (c *Config) Validate() error {
	var faults []error
	if c.Bucket == "" {
		faults = append(faults, errors.New("no bucket name"))
	}
	if c.Prefix != "" {
		if err := objstore.CheckKey(c.Prefix); err != nil {
			faults = append(faults, fmt.Errorf("prefix: %w", err))
		}
	}
	if (c.AccessKey == "") != (c.SecretKey == "") {
		faults = append(faults, errors.New("access key and secret key come together"))
	}
	if c.Endpoint != "" {
		if u, err := url.Parse(c.Endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			faults = append(faults, fmt.Errorf("endpoint %q is not an http or https URL", c.Endpoint))
		}
	}
	return errors.Join(faults...)
}

// options are the client's. Retries are off: a bucket's callers retry, and know better what a failed put means.
func (c *Config) options(ctx context.Context, client *httpClient) (awss3.Options, error) {
	says := c.sdkLogger()
	options := awss3.Options{
		Region:       c.Region,
		UsePathStyle: c.PathStyle,
		HTTPClient:   client,
		Retryer:      aws.NopRetryer{},
		Logger:       says,
		// Checksums are given with the put, and verified by who reads record batches.
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
		// Waiting for "100 Continue" costs a round trip for each put.
		ContinueHeaderThresholdBytes: -1,
		EndpointResolverV2:           newEndpoints(),
	}
	if c.Endpoint != "" {
		options.BaseEndpoint = aws.String(c.Endpoint)
		options.Region = cmp.Or(options.Region, "us-east-1")
	}
	if c.AccessKey != "" {
		options.Credentials = credentials.NewStaticCredentialsProvider(c.AccessKey, c.SecretKey, "")
	}
	if options.Credentials == nil || options.Region == "" {
		shared, err := config.LoadDefaultConfig(ctx, config.WithLogger(says))
		if err != nil {
			return options, fmt.Errorf("load AWS configuration: %w", err)
		}
		options.Region = cmp.Or(options.Region, shared.Region)
		if options.Credentials == nil {
			options.Credentials = provider{shared.Credentials}
		}
	}
	if options.Region == "" {
		return options, errors.New("no region for bucket: give it in the URL or the AWS configuration")
	}
	return options, nil
}

// sdkLogger writes the SDK's lines to Log, instead of standard error in a format of their own.
func (c *Config) sdkLogger() logging.Logger {
	if c.Log == nil {
		return logging.Nop{}
	}
	return logging.LoggerFunc(func(class logging.Classification, format string, args ...any) {
		c.Log.Debug("the AWS SDK says", zap.String("class", string(class)), zap.String("text", fmt.Sprintf(format, args...)))
	})
}
