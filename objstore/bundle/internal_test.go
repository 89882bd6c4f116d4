package bundle

import "github.com/freshet-io/freshet/metadata/id"

// LongTable gives a bundle of one section with a chunk for each of its n batches, as no Writer makes it.
func LongTable(n int, batch []byte) []byte {
	var f frame
	var p part
	p.append(f.begin(id.Submission{Session: 1, N: 1}))
	for i := range n {
		if _, err := f.add(id.TopicPartition{}, batch); err != nil {
			panic(err)
		}
		f.next = 0
		f.chunks[i].length += SeekBytes // ends the chunk
		p.append(batch)
	}
	for i := range f.chunks {
		f.chunks[i].length -= SeekBytes
	}
	p.append(f.end(p.crc))
	var data []byte
	for _, c := range p.chunks {
		data = append(data, c...)
	}
	return data
}
