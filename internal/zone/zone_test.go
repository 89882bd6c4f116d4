package zone_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/zone"
)

// serve answers the given paths, after checking the header they need.
func serve(t *testing.T, answers map[string]string, header, value string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.Method+" "+r.URL.Path]
		if !ok || header != "" && r.Method == http.MethodGet && r.Header.Get(header) != value {
			http.Error(w, "no", http.StatusNotFound)
			return
		}
		w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "60")
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func detector(t *testing.T) zone.Detector {
	t.Helper()
	nothing := serve(t, nil, "", "")
	return zone.Detector{Getenv: func(string) string { return "" }, AWS: nothing, GCP: nothing, Azure: nothing, HTTP: http.DefaultClient}
}

func TestDetect(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(d *zone.Detector)
		want string
	}{
		"ECS": {func(d *zone.Detector) {
			url := serve(t, map[string]string{"GET /v4/task": `{"Family":"f","AvailabilityZone":"eu-central-1b"}`}, "", "")
			d.Getenv = func(name string) string {
				if name == "ECS_CONTAINER_METADATA_URI_V4" {
					return url + "/v4"
				}
				return ""
			}
		}, "eu-central-1b"},
		"AWS": {func(d *zone.Detector) {
			d.AWS = serve(t, map[string]string{
				"PUT /latest/api/token":                             "token",
				"GET /latest/meta-data/placement/availability-zone": "us-east-1c",
			}, "X-Aws-Ec2-Metadata-Token", "token")
		}, "us-east-1c"},
		"GCP": {func(d *zone.Detector) {
			d.GCP = serve(t, map[string]string{"GET /computeMetadata/v1/instance/zone": `"projects/12/zones/europe-west3-a"`}, "Metadata-Flavor", "Google")
		}, "europe-west3-a"},
		"Azure": {func(d *zone.Detector) {
			d.Azure = serve(t, map[string]string{"GET /metadata/instance/compute": `{"location":"westeurope","zone":"2"}`}, "Metadata", "true")
		}, "westeurope-2"},
	} {
		t.Run(name, func(t *testing.T) {
			d := detector(t)
			c.set(&d)
			got, err := d.Detect(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestDetect_Unknown(t *testing.T) {
	d := detector(t)
	_, err := d.Detect(t.Context())
	require.ErrorIs(t, err, zone.ErrUnknown)
	for _, source := range []string{"AWS", "GCP", "Azure"} {
		require.ErrorContains(t, err, source, "what each said")
	}

	d.Azure = serve(t, map[string]string{"GET /metadata/instance/compute": `{"location":"westus"}`}, "Metadata", "true")
	_, err = d.Detect(t.Context())
	require.ErrorIs(t, err, zone.ErrUnknown, "a region without zones")

	url := serve(t, map[string]string{"GET /task": `{}`}, "", "")
	d.Getenv = func(string) string { return url }
	_, err = d.Detect(t.Context())
	require.ErrorIs(t, err, zone.ErrUnknown, "an old platform version")
}

// TestDetect_AsksAboutATaskAgain: ECS answers 500 while the networking of a task starts.
func TestDetect_AsksAboutATaskAgain(t *testing.T) {
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = w.Write([]byte(`{"AvailabilityZone":"eu-1a"}`))
	}))
	defer s.Close()
	d := detector(t)
	d.Getenv = func(string) string { return s.URL }
	got, err := d.Detect(t.Context())
	require.NoError(t, err)
	require.Equal(t, "eu-1a", got)
}
