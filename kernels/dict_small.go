package kernels

import "maps"

// smallNames is how many names lie beside their dictionary in a Copy.
const smallNames = 4

// Copy returns an independent copy that takes more names. One of few names is one
// allocation.
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
	c.arena = d.arena[:len(d.arena):len(d.arena)] // what is there is not changed
	c.apart = maps.Clone(d.apart)
	return &c.Dict
}
