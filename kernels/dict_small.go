package kernels

import "maps"

// smallNames is the number of names stored with their dictionary in a Copy.
const smallNames = 4

// Copy returns an independent copy that can grow. For few names it is one allocation.
func (d *Dict) Copy() *Dict {
	c := new(struct {
		Dict
		few [smallNames]name
	})
	if len(d.names) > smallNames || d.table != nil || d.direct != nil {
		c.Dict = d.Clone()
		return &c.Dict
	}
	c.Dict = *d
	c.names = append(c.few[:0], d.names...)
	c.arena = d.arena[:len(d.arena):len(d.arena)] // the existing part is never changed
	c.apart = maps.Clone(d.apart)
	return &c.Dict
}
