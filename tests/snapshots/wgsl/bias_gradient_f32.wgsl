@group(0) @binding(3) var<storage, read_write> v13: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 2>, static_meta: array<u32, 4> }
@group(0) @binding(4) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn bias_gradient_f32(@builtin(workgroup_id) v160: vec3<u32>, @builtin(num_workgroups) v162: vec3<u32>, @builtin(local_invocation_index) v169: u32) {
let v199 = &v13;
let v200 = &v9;
let v201 = &v5;
let v202 = &v1;
let v65 = info_var.static_meta[3];
let v17 = info_var.scalars_usize[0];
let v161 = v160[2];
let v69 = u32(v161);
let v163 = v162[1];
let v71 = u32(v163);
let v72 = v69 * v71;
let v164 = v162[0];
let v74 = u32(v164);
let v75 = v72 * v74;
let v165 = v160[1];
let v77 = u32(v165);
let v80 = v77 * v74;
let v81 = v75 + v80;
let v167 = v160[0];
let v83 = u32(v167);
let v84 = v81 + v83;
let v195 = u32(64);
let v87 = v84 * v195;
let v170 = v169;
let v89 = u32(v170);
let v90 = v87 + v89;
let v21 = v90 < v65;
if v21 {
let v23 = v90 / v17;
let v25 = v90 % v17;
let v26 = f32(0.0);
let v27 = vec4<f32>(v26);
var<function> v66_store: vec4<f32>;
let v66 = &v66_store;
*v66 = v27;
let v32 = &(*v200)[v23];
let v33 = *v32;
let v34 = u32(v33);
let v35 = u32(1);
let v36 = v23 + v35;
let v40 = &(*v200)[v36];
let v41 = *v40;
let v42 = u32(v41);
for(var v44: u32 = v34; v44 < v42; v44 += v35) {
let v46 = v44 * v17;
let v47 = v46 + v25;
let v51 = &(*v202)[v47];
let v52 = *v51;
let v53 = *v66;
let v54 = v53 + v52;
*v66 = v54;

}
let v59 = &(*v199)[v90];
let v60 = *v66;
*v59 = v60;

}
return;

}
