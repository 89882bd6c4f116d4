package admin

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/kafkaproto"
)

// UpdateFeatures, key 57, versions 0-2 (KIP-584). All are flexible.
//
//	1  names the kind of upgrade, may only validate (KIP-778)
//	2  answers no results per feature
//
// Feature levels are what this release speaks (kafkaproto.Features): each has one, and naming it is fine. Any other is
// refused, also where Kafka would change it. As in Kafka, one bad feature fails all (FeatureControlManager).

// Kinds of upgrade (FeatureUpdate.UpgradeType).
const (
	featureUpgrade         = 1
	featureUnsafeDowngrade = 3
)

func (c *call) updateFeatures(_ context.Context, in *kmsg.UpdateFeaturesRequest) (*kmsg.UpdateFeaturesResponse, error) {
	out := kmsg.NewPtrUpdateFeaturesResponse()
	for _, u := range in.FeatureUpdates {
		why := refusedFeature(u, in.Version)
		if why == "" {
			continue
		}
		out.ErrorCode = kerr.InvalidUpdateVersion.Code
		out.ErrorMessage = kmsg.StringPtr(fmt.Sprintf("The update failed for all features since the following feature had an error: "+
			"Invalid update version %d for feature %s. %s", u.MaxVersionLevel, u.Feature, why))
		return out, nil
	}
	seen := map[string]bool{}
	for _, u := range in.FeatureUpdates {
		if in.Version < 2 && !seen[u.Feature] {
			r := kmsg.NewUpdateFeaturesResponseResult()
			r.Feature, r.ErrorMessage = u.Feature, kmsg.StringPtr("NONE")
			out.Results = append(out.Results, r)
		}
		seen[u.Feature] = true
	}
	return out, nil
}

// refusedFeature says why a level cannot be set, "" if it is the one spoken.
func refusedFeature(u kmsg.UpdateFeaturesRequestFeatureUpdate, version int16) string {
	if version >= 1 && (u.UpgradeType < featureUpgrade || u.UpgradeType > featureUnsafeDowngrade) {
		return "The controller does not support the given upgrade type."
	}
	if u.MaxVersionLevel < 0 {
		return "A feature version cannot be less than 0."
	}
	for _, f := range kafkaproto.Features() {
		switch {
		case f.Name != u.Feature:
			continue
		case u.MaxVersionLevel < f.Min || u.MaxVersionLevel > f.Max:
			return fmt.Sprintf("Only versions %d-%d are supported.", f.Min, f.Max)
		case u.MaxVersionLevel != f.Finalized:
			return fmt.Sprintf("The level is %d and changes with the release.", f.Finalized)
		}
		return ""
	}
	if u.MaxVersionLevel == 0 {
		return "" // what is not there has level 0
	}
	return "This feature is not supported."
}
