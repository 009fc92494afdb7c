@group(0) @binding(2) var<storage, read_write> v9: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 2>, static_meta: array<u32, 4> }
@group(0) @binding(3) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn expert_activation_f32_relu(@builtin(workgroup_id) v150: vec3<u32>, @builtin(num_workgroups) v152: vec3<u32>, @builtin(local_invocation_index) v159: u32) {
let v189 = &v9;
let v190 = &v5;
let v191 = &v1;
let v56 = info_var.static_meta[2];
let v13 = info_var.scalars_usize[0];
let v14 = info_var.scalars_usize[1];
let v151 = v150[2];
let v59 = u32(v151);
let v153 = v152[1];
let v61 = u32(v153);
let v62 = v59 * v61;
let v154 = v152[0];
let v64 = u32(v154);
let v65 = v62 * v64;
let v155 = v150[1];
let v67 = u32(v155);
let v70 = v67 * v64;
let v71 = v65 + v70;
let v157 = v150[0];
let v73 = u32(v157);
let v74 = v71 + v73;
let v185 = u32(64);
let v77 = v74 * v185;
let v160 = v159;
let v79 = u32(v160);
let v80 = v77 + v79;
let v17 = v80 < v56;
if v17 {
let v19 = v80 / v14;
let v21 = v80 % v14;
let v22 = f32(0.0);
let v23 = vec4<f32>(v22);
var<function> v57_store: vec4<f32>;
let v57 = &v57_store;
*v57 = v23;
let v28 = &(*v190)[v13];
let v29 = *v28;
let v30 = u32(v29);
let v31 = v19 < v30;
if v31 {
let v32 = v19 * v14;
let v35 = v32 + v21;
let v39 = &(*v191)[v35];
let v40 = *v39;
let v45 = v40 < v23;
let v46 = select(v40, v23, v45);
*v57 = v46;

}
let v47 = *v57;
let v52 = &(*v189)[v80];
*v52 = v47;

}
return;

}
