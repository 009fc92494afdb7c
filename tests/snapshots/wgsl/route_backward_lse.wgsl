@group(0) @binding(3) var<storage, read_write> v13: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> v9: array<f32>;
@group(0) @binding(1) var<storage, read> v5: array<f32>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 2>, static_meta: array<u32, 4> }
@group(0) @binding(4) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn route_backward_lse(@builtin(workgroup_id) v173: vec3<u32>, @builtin(num_workgroups) v175: vec3<u32>, @builtin(local_invocation_index) v182: u32) {
let v221 = &v13;
let v222 = &v9;
let v223 = &v5;
let v224 = &v1;
let v57 = info_var.static_meta[3];
let v17 = info_var.scalars_usize[0];
let v174 = v173[2];
let v59 = u32(v174);
let v176 = v175[1];
let v61 = u32(v176);
let v62 = v59 * v61;
let v177 = v175[0];
let v64 = u32(v177);
let v65 = v62 * v64;
let v178 = v173[1];
let v67 = u32(v178);
let v70 = v67 * v64;
let v71 = v65 + v70;
let v180 = v173[0];
let v73 = u32(v180);
let v74 = v71 + v73;
let v216 = u32(64);
let v77 = v74 * v216;
let v183 = v182;
let v79 = u32(v183);
let v80 = v77 + v79;
let v20 = v80 < v57;
if v20 {
let v22 = v80 / v17;
let v27 = &(*v224)[v80];
let v28 = *v27;
let v32 = &(*v223)[v22];
let v33 = *v32;
let v34 = vec4<f32>(v33);
let v35 = v28 - v34;
let v36 = exp(v35);
let v42 = &(*v222)[v22];
let v43 = *v42;
let v44 = vec4<f32>(v43);
let v45 = v36 * v44;
let v52 = &(*v221)[v80];
*v52 = v45;

}
return;

}
