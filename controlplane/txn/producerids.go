package txn

import (
	"context"

	"github.com/freshet-io/freshet/metadata"
)

// producerIDBlock is how many ids are reserved at once, as Kafka's brokers do. Most requests thus need no log entry;
// what is left of a block is lost with its owner.
const producerIDBlock = 1000

// newProducerID gives an id that nobody got before.
func (c *Coordinator) newProducerID(ctx context.Context) (int64, error) {
	c.ids.Lock()
	defer c.ids.Unlock()
	// Held while the block comes: everybody else needs one too.
	if c.ids.next == c.ids.end {
		result, _, err := c.owner.Propose(ctx, &metadata.AllocateProducerIDs{Count: producerIDBlock})
		if err == nil {
			err = result.Err
		}
		if err != nil {
			return 0, err
		}
		c.ids.next = result.Value.(int64)
		c.ids.end = c.ids.next + producerIDBlock
	}
	// Ids given by an owner that is none any more are still nobody else's: the block is reserved in the log.
	c.ids.next++
	return c.ids.next - 1, nil
}
