package tenants

import (
	"os"
	"testing"

	"github.com/freshet-io/freshet/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }
