package mem_test

import (
	"testing"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/mem"
	"github.com/freshet-io/freshet/objstore/objstoretest"
)

func TestBucket_Contract(t *testing.T) {
	objstoretest.Run(t, func(*testing.T) objstore.Bucket { return mem.New() })
}
