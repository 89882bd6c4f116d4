package cli

import "github.com/freshet-io/freshet/objstore/bundle"

// inspectedBundle is the JSON of a bundle. Its numbers are those of bundle.Description.
type inspectedBundle struct {
	Name     string             `json:"name"` // as given: a key or a file
	Bundle   string             `json:"bundle"`
	Kind     string             `json:"kind"`
	Bytes    int64              `json:"bytes"`
	CRC32C   uint32             `json:"crc32c"`
	Fault    string             `json:"fault,omitempty"` // "" if all checksums and lengths are right
	Sections []inspectedSection `json:"sections"`
	Seek     []inspectedChunk   `json:"seek,omitempty"`
}

type inspectedSection struct {
	Partition string           `json:"partition"` // topic ID and number
	Position  uint32           `json:"position"`
	Length    uint32           `json:"length"`
	Batches   []inspectedBatch `json:"batches"`
}

type inspectedBatch struct {
	Position      uint32 `json:"position"`
	Length        uint32 `json:"length"`
	BaseOffset    *int64 `json:"base_offset,omitempty"` // of a background job's bundle
	Attributes    int16  `json:"attributes"`            // as in Kafka's record batch
	Records       int32  `json:"records"`
	BaseTimestamp int64  `json:"base_timestamp"`
	MaxTimestamp  int64  `json:"max_timestamp"`
	ProducerID    int64  `json:"producer_id"`
	ProducerEpoch int16  `json:"producer_epoch"`
	BaseSequence  int32  `json:"base_sequence"`
	CRC32C        uint32 `json:"crc32c"`
	Intact        bool   `json:"intact"`
}

type inspectedChunk struct {
	Position     uint32 `json:"position"`
	Length       uint32 `json:"length"`
	FirstOffset  int64  `json:"first_offset"`
	MaxTimestamp int64  `json:"max_timestamp"`
}

// inspectedOf returns the JSON of a description, with the fault of the bundle, which may be nil.
func inspectedOf(name string, d *bundle.Description, fault error) inspectedBundle {
	in := inspectedBundle{
		Name: name, Bundle: d.Name.String(), Kind: d.Kind.String(), Bytes: d.Size, CRC32C: d.CRC32C,
		Sections: make([]inspectedSection, 0, len(d.Sections)),
	}
	if fault != nil {
		in.Fault = fault.Error()
	}
	for _, s := range d.Sections {
		section := inspectedSection{
			Partition: s.Partition.String(), Position: s.Position, Length: s.Length, Batches: make([]inspectedBatch, 0, len(s.Contents)),
		}
		for _, b := range s.Contents {
			batch := inspectedBatch{
				Position: b.Position, Length: b.Length, Attributes: b.Attributes, Records: b.Records,
				BaseTimestamp: b.BaseTimestamp, MaxTimestamp: b.MaxTimestamp,
				ProducerID: b.ProducerID, ProducerEpoch: b.ProducerEpoch, BaseSequence: b.BaseSequence, CRC32C: b.CRC32C, Intact: b.Intact,
			}
			if d.Kind == bundle.OfJob {
				batch.BaseOffset = &b.BaseOffset
			}
			section.Batches = append(section.Batches, batch)
		}
		in.Sections = append(in.Sections, section)
	}
	for _, e := range d.Seek {
		in.Seek = append(in.Seek, inspectedChunk{e.Position, e.Length, e.First, e.MaxTimestamp})
	}
	return in
}
