package owner

import (
	"time"

	"github.com/freshet-io/freshet/metadata"
)

// logTimeEvery is the longest time without an entry, in ms. It bounds how far the command time of the log falls behind. If the next owner cannot
// read the store's clock, its command time goes on from the log's. Once it can, command time catches up, and does not step.
const logTimeEvery = int64(time.Hour / time.Millisecond)

// time returns the command time of the next entry, in ms. It never goes back.
func (o *Owner) time() int64 {
	for {
		last := o.now.Load()
		now := max(last, o.cfg.Now().UnixMilli())
		if o.now.CompareAndSwap(last, now) {
			return now
		}
	}
}

// skipTick answers a Tick at once, without the log, if no work is due (metadata.State.NextDue). Readers of the state see the Tick's time all the
// same. The tenure's first Tick is not skipped unless other entries brought the log's time forward. Errors: ErrNotOwner.
func (o *Owner) skipTick(p *Proposal) error {
	if _, ok := p.cmd.(*metadata.Tick); !ok {
		return nil
	}
	now, skip := o.time(), false
	index, err := o.Read(func(s *metadata.State) { skip = s.NextDue() > now && now-o.logged < logTimeEvery })
	if err != nil || !skip {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.state == nil {
		return ErrNotOwner
	}
	o.state.PassTime(now)
	p.stay.Store(taken)
	p.succeed(metadata.Result{}, index)
	return nil
}
