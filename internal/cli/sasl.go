package cli

import (
	"errors"

	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/freshet-io/freshet/internal/config"
)

// Mechanisms of SASL, as Kafka's sasl.mechanism names them.
const (
	saslPlain    = "PLAIN"
	saslScram256 = "SCRAM-SHA-256"
	saslScram512 = "SCRAM-SHA-512"
)

// SASL holds the flags by which a client authenticates with SASL. The zero value is usable after Bind.
type SASL struct{ mechanism, username, password string }

// Bind adds the flags.
func (s *SASL) Bind(f *pflag.FlagSet) {
	s.mechanism = saslPlain
	f.Var(config.Choice(&s.mechanism, saslPlain, saslScram256, saslScram512), "sasl-mechanism", "how the name and password of --sasl-username are shown")
	f.StringVar(&s.username, "sasl-username", "", "name to authenticate with by SASL, for clusters that want it; without it there is no SASL")
	f.StringVar(&s.password, "sasl-password", "", "password of --sasl-username; better given in the environment")
}

// Options returns the client's options, nil without a name. It returns an error if only one of name and password is given.
func (s *SASL) Options() ([]kgo.Opt, error) {
	switch {
	case s.username == "" && s.password == "":
		return nil, nil
	case s.username == "" || s.password == "":
		return nil, errors.New("--sasl-username and --sasl-password come together")
	}
	user := scram.Auth{User: s.username, Pass: s.password}
	switch s.mechanism {
	case saslScram256:
		return []kgo.Opt{kgo.SASL(user.AsSha256Mechanism())}, nil
	case saslScram512:
		return []kgo.Opt{kgo.SASL(user.AsSha512Mechanism())}, nil
	}
	return []kgo.Opt{kgo.SASL(plain.Auth{User: s.username, Pass: s.password}.AsMechanism())}, nil
}
