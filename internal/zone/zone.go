// Package zone finds out in which availability zone this process runs, by asking the platform.
package zone

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/freshet-io/freshet/internal/wait"
)

var (
	// ErrUnknown is returned if no source could be asked, or none knows.
	ErrUnknown = errors.New("the availability zone could not be found out")
	// ErrNone is returned if the platform answers that there is no zone.
	ErrNone = errors.New("the platform names no availability zone")
	// errNoAnswer is returned by a question that is worth repeating.
	errNoAnswer = errors.New("no answer")
)

const (
	// timeout bounds each question: instance metadata answer within milliseconds where they exist, and nothing answers where
	// they do not.
	timeout = 2 * time.Second
	// taskPatience bounds the questions about an ECS task. The endpoint answers 500 while the task's networking starts.
	taskPatience = 8 * time.Second
)

// maxAnswer bounds an answer that is read, bytes.
const maxAnswer = 1 << 20

// Detector asks for the zone. Without endpoints of its own it asks this machine's platform.
type Detector struct {
	Getenv func(string) string // reads the environment
	// Node is the name of the Kubernetes node that runs this pod; "" if it is not known.
	Node string
	// ServiceAccount is the directory of the pod's token and the API server's certificates; "": where Kubernetes mounts it.
	ServiceAccount string
	// Patience bounds the wait for an API server that cannot be reached. Default 30 s.
	Patience time.Duration
	Log      *zap.Logger // nil for none
	// Endpoints of instance metadata; empty: the platform's.
	AWS, GCP, Azure string
	HTTP            *http.Client // nil: one without proxies
}

// Detect returns the zone of the first that there is:
//
//  1. the ECS task: task metadata version 4, on Fargate and on instances
//  2. the Kubernetes node Node: its label ZoneLabel, from the API server
//  3. the instance: Amazon's, Google's and Azure's metadata services, all asked at once
//
// Errors: ErrNone, ErrUnknown. They say what each source answered.
func (d Detector) Detect(ctx context.Context) (string, error) {
	d.applyDefaults()
	if task := d.Getenv("ECS_CONTAINER_METADATA_URI_V4"); task != "" {
		zone, err := d.ecs(ctx, task)
		if err != nil {
			return "", fmt.Errorf("%w: ECS task metadata: %w", ErrUnknown, err)
		}
		return zone, nil
	}
	if d.Node != "" {
		return d.node(ctx)
	}
	zone, err := d.instance(ctx)
	if err != nil && !errors.Is(err, ErrNone) && d.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		return "", fmt.Errorf("%w: the pod's node is not known: set FRESHET_NODE_NAME to the pod's spec.nodeName by the downward API", ErrUnknown)
	}
	return zone, err
}

func (d *Detector) applyDefaults() {
	if d.GCP == "" {
		d.GCP = "http://metadata.google.internal"
	}
	if d.Azure == "" {
		d.Azure = "http://169.254.169.254"
	}
	d.ServiceAccount = cmp.Or(d.ServiceAccount, serviceAccount)
	d.Patience = cmp.Or(d.Patience, apiPatience)
	d.Log = cmp.Or(d.Log, zap.NewNop())
	if d.HTTP == nil {
		d.HTTP = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	}
}

// instance asks the metadata services of all platforms and takes the one that answers.
func (d *Detector) instance(ctx context.Context) (string, error) {
	sources := []struct {
		name string
		ask  func(context.Context) (string, error)
	}{{"AWS", d.aws}, {"GCP", d.gcp}, {"Azure", d.azure}}
	zones, errs := make([]string, len(sources)), make([]error, len(sources))
	var g errgroup.Group
	for i, s := range sources {
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			zones[i], errs[i] = s.ask(ctx)
			return nil
		})
	}
	_ = g.Wait() // each keeps its own
	for i := range sources {
		if errs[i] == nil && zones[i] != "" {
			return zones[i], nil
		}
	}
	said := make([]error, len(sources))
	for i, s := range sources {
		said[i] = fmt.Errorf("%s: %w", s.name, errs[i])
	}
	return "", fmt.Errorf("%w: %w", ErrUnknown, errors.Join(said...))
}

// ecs reads AvailabilityZone of the task ("Amazon ECS task metadata endpoint version 4"). It repeats a question
// without an answer until taskPatience is over.
func (d *Detector) ecs(ctx context.Context, task string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, taskPatience)
	defer cancel()
	for pause := apiPause; ; pause *= 2 {
		zone, err := d.task(ctx, task)
		if !errors.Is(err, errNoAnswer) || wait.For(ctx, pause) != nil {
			return zone, err
		}
	}
}

func (d *Detector) task(ctx context.Context, task string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var answer struct{ AvailabilityZone string }
	if err := d.get(ctx, task+"/task", nil, &answer); err != nil {
		return "", err
	}
	return named(answer.AvailabilityZone)
}

func (d *Detector) aws(ctx context.Context) (string, error) {
	c := imds.New(imds.Options{Endpoint: d.AWS, HTTPClient: d.HTTP})
	out, err := c.GetMetadata(ctx, &imds.GetMetadataInput{Path: "placement/availability-zone"})
	if err != nil {
		return "", err
	}
	defer func() { _ = out.Content.Close() }()
	zone, err := io.ReadAll(io.LimitReader(out.Content, maxAnswer))
	if err != nil {
		return "", fmt.Errorf("read answer: %w", err)
	}
	return named(string(zone))
}

// gcp reads instance/zone, which is projects/<number>/zones/<zone>.
func (d *Detector) gcp(ctx context.Context) (string, error) {
	var answer string
	url := d.GCP + "/computeMetadata/v1/instance/zone?alt=json"
	if err := d.get(ctx, url, http.Header{"Metadata-Flavor": {"Google"}}, &answer); err != nil {
		return "", err
	}
	return named(path.Base(answer))
}

// azure joins region and zone: zones are numbers within a region.
func (d *Detector) azure(ctx context.Context) (string, error) {
	var answer struct{ Location, Zone string }
	url := d.Azure + "/metadata/instance/compute?api-version=2021-02-01"
	if err := d.get(ctx, url, http.Header{"Metadata": {"true"}}, &answer); err != nil {
		return "", err
	}
	if answer.Zone == "" {
		return "", ErrNone
	}
	return named(answer.Location + "-" + answer.Zone)
}

func named(zone string) (string, error) {
	zone = strings.TrimSpace(zone)
	if zone == "" || zone == "." || zone == "/" {
		return "", ErrNone
	}
	return zone, nil
}

// get asks for JSON.
func (d *Detector) get(ctx context.Context, url string, header http.Header, answer any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("ask %s: %w", url, err)
	}
	if header != nil {
		req.Header = header
	}
	resp, err := d.HTTP.Do(req)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode >= http.StatusInternalServerError || resp.StatusCode == http.StatusTooManyRequests {
		return fmt.Errorf("%w: ask %s: %s", errNoAnswer, url, resp.Status)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("ask %s: %s", url, resp.Status)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(answer); err != nil {
		return fmt.Errorf("read answer of %s: %w", url, err)
	}
	return nil
}
