package load

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// groupsAtOnce bounds the groups of one request.
const groupsAtOnce = 500

// DeleteGroups removes groups, which must be empty; those that do not exist are no fault.
func DeleteGroups(ctx context.Context, opts []kgo.Opt, groups []string) error {
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return fmt.Errorf("make admin client: %w", err)
	}
	defer client.Close()
	var errs []error
	for batch := range slices.Chunk(groups, groupsAtOnce) {
		answers, err := kadm.NewClient(client).DeleteGroups(ctx, batch...)
		if err != nil {
			return fmt.Errorf("delete groups: %w", err)
		}
		for _, a := range answers.Sorted() {
			if a.Err != nil && !errors.Is(a.Err, kerr.GroupIDNotFound) {
				errs = append(errs, fmt.Errorf("delete group %s: %w", a.Group, a.Err))
			}
		}
	}
	return errors.Join(errs...)
}
