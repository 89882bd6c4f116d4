package cli

import (
	"cmp"
	"context"
	"errors"
	"net"
	"time"

	"github.com/freshet-io/freshet/internal/access"
)

// discoverLimit bounds the connection that shows whether a `freshet dev` still runs.
const discoverLimit = time.Second

// Locate sets Bootstrap if it is empty: to the address of the `freshet dev` on DataDir, or of the one on access.DefaultDir if
// that still runs, or else to defaultBootstrap.
func (c *ClientConfig) Locate(ctx context.Context) error {
	if len(c.Bootstrap) > 0 {
		return nil
	}
	a, err := access.Read(cmp.Or(c.DataDir, access.DefaultDir))
	if err == nil && a.Kafka == "" {
		err = errors.New("the access file has no Kafka address: restart freshet dev")
	}
	switch {
	case err != nil && c.DataDir != "":
		return err
	case err == nil && (c.DataDir != "" || connects(ctx, a.Kafka)):
		c.Bootstrap, c.found = []string{a.Kafka}, cmp.Or(c.DataDir, access.DefaultDir)
	default:
		c.Bootstrap = []string{defaultBootstrap}
	}
	return nil
}

// connects reports whether a process listens at an address.
func connects(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, discoverLimit)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}
